"""What can be said of a model for a target before anything runs: pure rules over facts."""
