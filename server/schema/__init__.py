"""What goes over the wire: structures, and what splits and checks bytes beforehand."""
