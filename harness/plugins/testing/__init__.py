"""Checks for plug-in authors. Each returns a list of problems, as sentences.

A check calls the plug-in as the harness would, with ordinary and with hostile input. It reports
only the first problem of each member, so check again after a fix. A check cannot show that scores
are right: a task's author should verify some scores by hand.
"""

from harness.plugins.testing.backends import check_backend as check_backend
from harness.plugins.testing.judges import check_judge as check_judge
from harness.plugins.testing.scoring import check_checker as check_checker
from harness.plugins.testing.scoring import check_task as check_task
