"""What is cut out of a corpus' paragraphs, a module each: `harness.ports.PostProcessor`.

They run in the order in which a source names them, on foreign text, in time linear in it.
"""
