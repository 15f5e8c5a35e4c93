"""Evolution strategies with restarts of growing populations: python -m evo_search.search"""
