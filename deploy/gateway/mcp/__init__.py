"""The memory as tools of agents (Model Context Protocol): in the gateway at /mcp, and over stdio."""
