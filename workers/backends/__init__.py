"""One file per runtime behind the protocol in ``base``; importing this imports no runtime."""
