"""Checks for authors of plug-ins: each returns what is wrong, in sentences, or an empty list.

A check calls the plug-in as the harness would, with ordinary and with hostile input, and reports
the first problem of each member: fix it and check again. It cannot show that scores mean what
they should: a task's author still compares some by hand.
"""

from harness.testing.backends import check_backend as check_backend
from harness.testing.scoring import check_checker as check_checker
from harness.testing.scoring import check_judge as check_judge
from harness.testing.scoring import check_task as check_task
