"""Tables that people edit: graphs, builds, links, graphics cards."""
