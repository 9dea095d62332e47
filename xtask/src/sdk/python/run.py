# Runs the unit tests in the current folder, and prints their numbers as libtest does.
import sys
import unittest

if sys.version_info < (3, 11):
    sys.exit(f"Python 3.11 or later is needed, and python3 is {sys.version.split()[0]}")
sys.path.insert(0, "")
result = unittest.TextTestRunner().run(unittest.defaultTestLoader.discover("."))
failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
passed, word = result.testsRun - failed - len(result.skipped), "FAILED" if failed else "ok"
print(f"test result: {word}. {max(passed, 0)} passed; {failed} failed; {len(result.skipped)} ignored")
sys.exit(failed > 0 or result.testsRun == 0)
