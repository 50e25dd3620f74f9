"""Protection against overload: how much this process can do, measured as it works."""

from ratelimit_middleware.overload.adaptive import Adaptive
from ratelimit_middleware.overload.meter import Meter
from ratelimit_middleware.overload.sensor import Sensor

__all__ = ["Adaptive", "Meter", "Sensor"]
