"""What Seamark does for those who wrote ``import neptune``."""
