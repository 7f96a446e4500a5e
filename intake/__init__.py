"""Reading what strangers send, in short-lived processes that hold nothing worth stealing."""
