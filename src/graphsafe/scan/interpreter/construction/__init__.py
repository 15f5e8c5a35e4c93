"""Objects as they are constructed: the calls of constructors, and the values that these calls give."""
