"""Other API servers that APIServices register: whether they answer, what they serve, and requests to them."""
