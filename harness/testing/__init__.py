"""Checks for plug-in authors, each of which returns a list of problems as sentences.

A check calls the plug-in as the harness would, with ordinary and hostile input, and reports the
first problem of each member, so check again after a fix. It cannot show that scores are right, so
a task's author should still verify some by hand.
"""

from harness.testing.backends import check_backend as check_backend
from harness.testing.scoring import check_checker as check_checker
from harness.testing.scoring import check_judge as check_judge
from harness.testing.scoring import check_task as check_task
