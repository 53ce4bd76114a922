"""Calibration after training: calibrators of the pooled prediction, conformal prediction sets."""

from calmix.calibrate.calibrator import Calibrator
from calmix.calibrate.conformal import Conformal, fit_conformal
from calmix.calibrate.methods import Method, fit_calibrator, load_calibrator
from calmix.calibrate.temperature import Order, Temperature, fit_temperature

__all__ = [
    "Calibrator",
    "Conformal",
    "Method",
    "Order",
    "Temperature",
    "fit_calibrator",
    "fit_conformal",
    "fit_temperature",
    "load_calibrator",
]
