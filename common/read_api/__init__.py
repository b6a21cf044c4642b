"""The read API of a component: pages, histories, access, and routes of the ops address."""
