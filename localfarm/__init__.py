"""The whole farm on one machine: real services from their wheels, then the farm's processes."""
