"""``python -m support.spark.cluster_driver``: the driver of a pod with ``local-cluster`` in place of an API server.

Everything else is as in a pod: identity from the environment, executors that are processes of their own, slots in them.
"""

from __future__ import annotations

import os
import sys

from sparkstate.driver import __main__ as driver
from sparkstate.spark import kubernetes

MASTER = "SPARKSTATE_TESTS_MASTER"

if __name__ == "__main__":
    kubernetes.master = lambda host, port: os.environ[MASTER]
    sys.exit(driver.main())
