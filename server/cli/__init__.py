"""The commands of `polydom`, one file each; `app.py` lists them."""
