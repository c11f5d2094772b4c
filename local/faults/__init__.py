"""Faults between the functions of a deployment and what they call: off until somebody asks for one."""
