"""Commands and servers in processes of their own, and requests to them."""
