"""What can be learnt of an app's routes without importing its framework."""
