"""The simulated NVML is there before the cockpit looks for a driver, which this machine may not have."""

import pynvml  # noqa: F401
