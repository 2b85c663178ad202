"""Run folders: their content, and the trained model in one."""
