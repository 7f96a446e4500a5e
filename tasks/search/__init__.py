"""Search for a precision: which candidates to try, what came of them, and which one to choose."""
