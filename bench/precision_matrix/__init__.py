"""What twelve real models are in int8 and in fp16: built by the stages that a node runs."""
