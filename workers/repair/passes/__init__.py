"""One small pass in each file: it changes the copy that it is given and says what it did."""
