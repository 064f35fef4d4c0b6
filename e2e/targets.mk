# The real control plane; included by the Makefile. e2e/conftest.py starts it and hands it to both directories.
e2e: $(STAMP) ## Smoke and conformance on a real control plane (needs Go; builds it once)
	@$(BIN)/python -m e2e.build >/dev/null
	@$(PYTEST) -q -m "not full" e2e tests/conformance

e2e-full: $(STAMP) ## The same and the long runs
	@$(BIN)/python -m e2e.build >/dev/null
	@$(PYTEST) -q e2e tests/conformance
