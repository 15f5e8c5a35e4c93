"""The results that one scan stores for later scans: the whole report, and the index of each file."""
