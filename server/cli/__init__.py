"""Every command of `polydom`, a file each; `app.py` lists them."""
