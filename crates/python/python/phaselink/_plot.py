"""Pictures of results, by matplotlib where it is installed."""

#: Colours of lines and bars in the pages of reports.
COLOURS = ("#2a6fbb", "#c2571a", "#2e8b57", "#8a56ac", "#a8324a", "#0f7c86", "#8a6d00", "#5b6470")


def axes(ax):
    """The axes to draw on: those that are given, or those of a new figure."""
    try:
        import matplotlib.pyplot as pyplot
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install matplotlib") from error
    return pyplot.subplots(figsize=(8, 4.5), layout="constrained")[1] if ax is None else ax


def stages(result, ax=None):
    """Bars of the mean time in each stage, one bar for each job and direction."""
    ax = axes(ax)
    bars = {}
    for stage in result.stages:
        if stage["mean_ns"] > 0:
            bars.setdefault((stage["job"], stage["direction"]), []).append(stage)
    names = list(dict.fromkeys(stage["stage"] for bar in bars.values() for stage in bar))
    labels = [f"{job} {direction}" for job, direction in bars]
    left = [0.0] * len(bars)
    for place, name in enumerate(names):
        widths = [sum(stage["mean_ns"] for stage in bar if stage["stage"] == name) / 1e3 for bar in bars.values()]
        hatch = "//" * (place // len(COLOURS))
        ax.barh(labels, widths, left=left, label=name, color=COLOURS[place % len(COLOURS)], hatch=hatch, edgecolor="white")
        left = [start + width for start, width in zip(left, widths)]
    ax.invert_yaxis()
    ax.set_xlabel("mean latency in us")
    ax.set_title(f"{result.drive.name}: {result.iops:,.0f} requests a second")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=4, fontsize="small")
    return ax


def distribution(result, ax=None):
    """Share of the requests that take longer than a latency, both on logarithmic scales: each decade is one more nine."""
    ax = axes(ax)
    longest_ns, count = result.histogram()
    beyond = 1 - count.cumsum() / count.sum()
    shown = beyond > 0
    ax.step(longest_ns[shown] / 1e3, beyond[shown], where="post", color=COLOURS[0])
    ax.set(xscale="log", yscale="log", xlabel="latency in us", ylabel="share of requests that take longer")
    ax.set_title(result.drive.name)
    return ax


def bars(rows, line, figure, heading, ax=None):
    """Bars of a figure: a group for each line of a comparison, in it a bar for each drive."""
    ax = axes(ax)
    drives = list(dict.fromkeys(row["drive"] for row in rows))
    lines = list(dict.fromkeys(line(row) for row in rows))
    width = 0.8 / len(drives)
    for place, drive in enumerate(drives):
        values = {line(row): row.get(figure) for row in rows if row["drive"] == drive}
        at = [number + (place - (len(drives) - 1) / 2) * width for number in range(len(lines))]
        heights = [values.get(name) or 0 for name in lines]
        hatch = "//" * (place // len(COLOURS))
        ax.bar(at, heights, width, label=drive, color=COLOURS[place % len(COLOURS)], hatch=hatch, edgecolor="white")
    ax.set_xticks(range(len(lines)), lines)
    ax.set_ylabel(heading)
    ax.legend(fontsize="small")
    return ax


def lines(rows, x, y, others, heading, ax=None):
    """Lines of a figure over the values of an axis, one line for each combination of the other axes."""
    ax = axes(ax)
    series = {}
    for row in rows:
        series.setdefault(tuple((name, row[name]) for name in others), []).append((row[x], row[y]))
    styles = ("-", "--", ":", "-.")
    for place, (names, points) in enumerate(series.items()):
        label = ", ".join(f"{name} {value}" for name, value in names)
        is_number = all(isinstance(value, (int, float)) for value, _ in points)
        over = [value if is_number else str(value) for value, _ in points]
        ax.plot(
            over,
            [value for _, value in points],
            marker="o",
            color=COLOURS[place % len(COLOURS)],
            linestyle=styles[place // len(COLOURS) % len(styles)],
            label=label,
        )
    ax.set(xlabel=x, ylabel=heading)
    if len(series) > 1:
        ax.legend(fontsize="small")
    return ax
