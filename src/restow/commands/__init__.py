"""What is typed after `restow`: the commands, what they read first, how mistakes are told, what one sees who waits."""
