"""Run folders: what they hold, and the trained model in one."""
