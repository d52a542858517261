"""The tests of arcwise, what they share (`support`), and soaks that are run by hand (`soak`)."""
