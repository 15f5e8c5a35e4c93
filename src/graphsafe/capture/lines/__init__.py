"""Which lines of the user's code ran, called and are to be named; and how a report names them."""
