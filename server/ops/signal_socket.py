"""Queues signals for a process to handle later, and ignores stray signals."""

import contextlib
import re
import select
import signal
import socket
from collections.abc import Callable, Iterable

# Signals that stop a server after it has answered its requests; Windows has no SIGQUIT.
STOPS = tuple(s for s in ("SIGTERM", "SIGINT", "SIGQUIT") if hasattr(signal, s))
# Signals that would end the process by default, though they report no error.
_STRAYS = re.compile("SIG(USR[12]|ALRM|VTALRM|PROF|IO|POLL|PWR|STKFLT|RTM(IN|AX))")


class SignalSocket:
    """A context manager that collects the signals named `names` while it is open.

    Its handlers only record the numbers of signals, so signals do not interrupt work.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._signals = signals_of(names)
        self._numbers = set[int]()

    def __enter__(self) -> "SignalSocket":
        self._receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)
        self._before = {n: signal.signal(n, self._record) for n in self._signals}
        signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._receiver.close()
        self._sender.close()

    def wait(self, seconds: float) -> set[int]:
        """Return the signals since the last call; wait up to `seconds` for one."""
        if select.select([self._receiver], [], [], seconds)[0]:
            self._receiver.recv(4096)
        numbers, self._numbers = self._numbers, set()
        return numbers

    def run_interruptible(
        self, names: Iterable[str], work: Callable[[], object]
    ) -> None:
        """Call `work`, and abort it at the first signal with one of the `names`.

        Only the first of these signals interrupts; all of them are collected for
        `wait`.
        """
        stops, working = signals_of(names), [True]

        def interrupt(number: int, frame: object) -> None:
            self._record(number, frame)
            if working:
                working.clear()
                raise _Interrupted

        with contextlib.suppress(_Interrupted):
            try:
                for number in stops:
                    signal.signal(number, interrupt)
                work()
            finally:
                working.clear()
        for number in stops:
            signal.signal(number, self._record)

    def leave_to_parent(self) -> None:
        """Stop collecting signals. A forked child process calls this."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def _record(self, number: int, _: object) -> None:
        self._numbers.add(number)


class _Interrupted(BaseException):
    """Raised by the handler of a signal, to abort the work of `run_interruptible`."""


def survive_strays() -> None:
    """Ignore signals, such as SIGUSR1, that would end the process by default.

    Handlers that are already set remain. The signals get handlers that do nothing, not
    SIG_IGN, because programs that this process starts would inherit SIG_IGN.
    """
    named = {number for number in signal.Signals if _STRAYS.fullmatch(number.name)}
    if hasattr(signal, "SIGRTMIN"):  # the signals between these two have no names
        named |= {*range(signal.SIGRTMIN, signal.SIGRTMAX + 1)}
    for number in named:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda *_: None)


def signals_of(names: Iterable[str]) -> set[signal.Signals]:
    """Return the signals with the given names, such as "SIGTERM"."""
    return {getattr(signal, name) for name in names}
