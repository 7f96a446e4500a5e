"""Models in another precision: cast to half, quantized with calibration data, and judged."""
