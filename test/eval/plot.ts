/** The reports of a run as one SVG: for each, any@k and all@k beside plain BM25, with 95 % intervals. */
import type { Report } from "./evaluate.ts";

const [barWidth, groupGap, plotHeight, margin] = [18, 26, 240, 48];
const colours = { own: "#2b6cb0", plain: "#a0aec0" } as const;

interface Bar {
  readonly value: number;
  readonly colour: string;
  readonly interval?: readonly [number, number];
}

interface Group {
  readonly label: string;
  readonly bars: readonly Bar[];
}

const escaped = (text: string): string => text.replace(/[&<>]/g, (char) => `&#${char.charCodeAt(0)};`);

function groupsOf(report: Report): Group[] {
  const { unit, shape, k, levels } = report;
  return Object.entries(levels).flatMap(([level, { overall, plain, intervals }]) =>
    (["any", "all"] as const).map((name) => ({
      label: `${unit === "transcript" ? unit : `${unit}, ${shape}`}: ${level} ${name}@${k}`,
      bars: [
        { value: plain[name], colour: colours.plain },
        { value: overall[name], colour: colours.own, ...(intervals[name] && { interval: intervals[name].own }) },
      ],
    })),
  );
}

/** An SVG document. Grey is plain BM25, blue is recall. */
export function drawPlot(reports: readonly Report[]): string {
  const groups = reports.flatMap(groupsOf);
  const step = 2 * barWidth + groupGap;
  const width = 2 * margin + groups.length * step;
  const y = (value: number): number => margin + plotHeight * (1 - value);
  const lines = [0, 0.25, 0.5, 0.75, 1].map(
    (value) =>
      `<line x1="${margin}" x2="${width - margin}" y1="${y(value)}" y2="${y(value)}" stroke="#e2e8f0"/>` +
      `<text x="${margin - 6}" y="${y(value) + 4}" text-anchor="end">${value}</text>`,
  );
  const drawn = groups.map(({ label, bars }, at) => {
    const left = margin + at * step + groupGap / 2;
    const parts = bars.map(({ value, colour, interval }, bar) => {
      const x = left + bar * barWidth;
      const middle = x + barWidth / 2;
      const whisker = interval
        ? `<line x1="${middle}" x2="${middle}" y1="${y(interval[0])}" y2="${y(interval[1])}" stroke="#1a202c"/>`
        : "";
      const height = y(0) - y(value);
      return (
        `<rect x="${x}" y="${y(value)}" width="${barWidth - 2}" height="${height}" fill="${colour}"/>${whisker}` +
        `<text x="${middle}" y="${y(value) - 4}" text-anchor="middle" font-size="8">${value.toFixed(2)}</text>`
      );
    });
    const [textX, textY] = [left + barWidth, y(0) + 12];
    const turned = `text-anchor="end" transform="rotate(-40 ${textX} ${textY})"`;
    return `${parts.join("")}<text x="${textX}" y="${textY}" ${turned}>${escaped(label)}</text>`;
  });
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${plotHeight + 4 * margin}" ` +
    `font-family="sans-serif" font-size="10">${lines.join("")}${drawn.join("")}</svg>\n`
  );
}
