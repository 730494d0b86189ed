# make test-browser: the page of `retort report` in headless Chromium (tests/browser). Not part of `make test`, since a browser is
# large; where there is none, the test says so and how to get one, and is left out. Needs no Python package. Pictures to look at are
# left in $(BUILD)/browser.
test-browser: all
	@BUILD='$(BUILD)' RETORT='$(BUILD)/retort' timeout 600 $(PYTHON) tests/browser/test_report.py

.PHONY: test-browser
