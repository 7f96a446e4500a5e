"""The tools that write models in another precision: one protocol, one contract, one file each."""
