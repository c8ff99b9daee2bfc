"""The commands of `polydom`, in folders by what they do; `app.py` lists them."""
