"""What plans cost: features and models timed, here or on another machine."""
