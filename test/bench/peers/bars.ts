/** A plot of ratios as SVG: a bar from one to the median of each, a line from the least to the most, logarithmic. */
import type { Bar } from "./section.ts";

const rowHeight = 22;
const top = 46;
const plotWidth = 420;
const valueWidth = 70;
/** Of a letter of the labels, about: what draws them has fonts of its own. */
const letterWidth = 6.8;
const padding = 12;
const marks = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100];

const escaped = (text: string): string =>
  text.replaceAll("`", "").replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** The marks that the bars lie between, at least from a half to two. */
function rangeOf(bars: readonly Bar[]): readonly [number, number] {
  const values = bars.flatMap(({ ratio }) => [ratio.least, ratio.most, ratio.median]).filter((value) => value > 0);
  const [least, most] = [Math.min(...values, 0.5), Math.max(...values, 2)];
  return [marks.findLast((mark) => mark <= least) ?? marks[0]!, marks.find((mark) => mark >= most) ?? marks.at(-1)!];
}

/** Bars to the right of one are ours to win, those to the left are not. */
export function ratiosSvg(title: string, bars: readonly Bar[]): string {
  const [from, to] = rangeOf(bars);
  const labelWidth = Math.ceil(letterWidth * Math.max(...bars.map(({ label }) => label.length)));
  const x = (value: number): number => {
    const within = Math.min(to, Math.max(from, value));
    return padding + labelWidth + (plotWidth * Math.log(within / from)) / Math.log(to / from);
  };
  const width = padding * 2 + labelWidth + plotWidth + valueWidth;
  const height = top + bars.length * rowHeight + padding;
  const at = (value: number): string => value.toFixed(1);
  const bottom = top + bars.length * rowHeight;
  const axis = marks
    .filter((mark) => mark >= from && mark <= to)
    .map(
      (mark) =>
        `<line x1="${at(x(mark))}" y1="${top - 6}" x2="${at(x(mark))}" y2="${bottom}" ` +
        `stroke="${mark === 1 ? "#24292f" : "#d8dee4"}"/>` +
        `<text x="${at(x(mark))}" y="${top - 11}" text-anchor="middle" fill="#57606a">${mark}</text>`,
    );
  const rows = bars.map(({ label, ratio }, index) => {
    const middle = top + index * rowHeight + rowHeight / 2;
    const [one, median] = [x(1), x(ratio.median)];
    const colour = ratio.median >= 1 ? "#1f6feb" : "#bc4c00";
    const whisker =
      ratio.least === ratio.most
        ? ""
        : `<line x1="${at(x(ratio.least))}" y1="${middle}" x2="${at(x(ratio.most))}" y2="${middle}" stroke="#24292f"/>`;
    return (
      `<text x="${padding + labelWidth - 8}" y="${middle + 4}" text-anchor="end">${escaped(label)}</text>` +
      `<rect x="${at(Math.min(one, median))}" y="${middle - 6}" width="${at(Math.abs(median - one))}" height="12" ` +
      `fill="${colour}" fill-opacity="0.75"/>${whisker}` +
      `<text x="${padding + labelWidth + plotWidth + 10}" y="${middle + 4}">${ratio.median.toFixed(2)}</text>`
    );
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" ` +
      'font-family="sans-serif" font-size="12" fill="#24292f">',
    `<rect width="${width}" height="${height}" fill="#ffffff"/>`,
    `<text x="${padding}" y="18" font-size="13" font-weight="bold">${escaped(title)}</text>`,
    ...axis,
    ...rows,
    "</svg>",
    "",
  ].join("\n");
}
