"""Names of properties: English words of our own choice, none a keyword of JSON Schema or Python.

The paper draws them from a dictionary (``pyrocinchonic``, ``scirenga``); ours are common ones,
so that what a name means is never the difficulty.
"""

_WORDS = """
account address advance airport alarm album amount anchor angle animal answer apple april archive
arrival arrow artist attempt author autumn avenue bakery balance ballot banner basket battery beacon
bedroom bicycle binder blanket border bottle branch bread breeze bridge bronze brother budget
builder bundle butter button cabin cable camera candle canvas capital captain carbon cargo carpet
carrier castle catalog ceiling center century channel chapter charge circle citizen climate clock
closet cluster coast coffee collar colony color column comment compass concert contact copper corner
cotton council country couple course cousin cover credit crew crown culture current customer
damage dealer debate decade degree delay delivery deposit depth desert detail device diamond dinner
discount district doctor dollar domain donor double draft dragon drawer driver duty eagle earth
edition editor effect effort elbow election elevator empire engine entrance episode equipment
estate evening event exhibit expense factory family farmer feature fence ferry fiber figure filter
finger flavor flight floor flower folder forest formula fountain frame freight friend frontier
fruit funnel furnace galaxy gallery garage garden garment gender genre glacier glove grammar granite
grape gravity guest guide guitar habit hammer handle harbor harvest hazard header health height
helmet hobby holiday honey horizon hospital hotel hour household hunter identity image income
industry infant insect island jacket jersey journal journey jungle junior kernel kettle keyboard
kitchen kitten knife label ladder lantern laptop launch lawyer leader league leather lecture ledger
legend lemon lesson letter level library license limit liquid locker lodge lumber luggage machine
magnet mailbox manager manual marble margin market marker master matter meadow meal medal member
memory menu merchant message metal meter method midnight mineral minute mirror mission mixture
model moment monitor month morning motor mountain museum music napkin nation needle neighbor network
nickel night noise notice novel nurse oasis object ocean office olive opera option orange orbit
orchard order organ outlet owner oxygen package paddle painter palace panel paper parcel parent park
partner passage patent patient pattern payment pencil people pepper permit person phone picture
pillow pilot pioneer planet plastic platform player plaza pocket poem policy pool portrait position
potato powder present price printer prize product profile profit program project prompt protein
pupil purchase purpose quality quarter question queue quota rabbit radar radio railway rainfall
ratio reader reason receipt recipe record region relay remark rental repair reply report resort
result revenue reward rhythm ribbon river rocket roof room route rubber runner saddle safety salary
salmon sample sandal satellite saucer scale school science score screen script season seat second
sector seller senior sensor sentence series server session shadow shelter shift signal silver sister
sketch socket soldier speaker speed sphere spirit spring square stable stadium staff station status
steam stone storage storm story stream street student studio subject suburb sugar summer supply
surface survey switch symbol system table talent target teacher temple tenant theater theory ticket
timber title tobacco token topic tower track trade traffic trailer trainer transit treaty trial
tribe trophy tunnel turbine tutor uncle union unit valley vehicle vendor venue vessel village violin
vision visitor voice volume voyage wagon wallet warehouse warranty water weather website wedding
weight window winter wizard worker workshop writer yard zone
"""

WORDS: tuple[str, ...] = tuple(dict.fromkeys(_WORDS.split()))
