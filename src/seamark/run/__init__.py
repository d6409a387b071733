"""A run: the parts that it has, and what is made of them."""
