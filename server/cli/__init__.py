"""The commands of `polydom`, one module each; `app.py` lists them."""
