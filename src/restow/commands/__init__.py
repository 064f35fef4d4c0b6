"""The commands of the command line: their options, what they read, how they report errors and progress."""
