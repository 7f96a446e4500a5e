"""Send hostile uploads to a real API and count what becomes of them."""
