// Questions of tests to a page: functions that return words, called by `Tab.ask`.

const describe = (element) => {
    const text = (element.textContent || "").trim().replace(/\s+/g, " ").slice(0, 40);
    const name = element.id ? `#${element.id}` : `.${(element.getAttribute("class") || "").replace(/ /g, ".")}`;
    return `<${element.tagName.toLowerCase()}${name}> "${text}"`;
};

const isVisible = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });

// Elements that scroll by themselves, or are only for screen readers, may hold more than fits.
const isClipped = (element) => {
    for (let each = element.parentElement; each && each !== document.body; each = each.parentElement) {
        if (getComputedStyle(each).overflowX !== "visible") return true;
    }
    return false;
};

const boxesOverlap = (a, b, slack) =>
    a.left < b.right - slack && b.left < a.right - slack && a.top < b.bottom - slack && b.top < a.bottom - slack;

function layoutProblems() {
    const found = [];
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > width) {
        found.push(`the page is ${document.documentElement.scrollWidth} px wide in a window of ${width}`);
    }
    for (const element of document.body.querySelectorAll("*")) {
        if (!isVisible(element) || element.closest("svg svg, svg *")) continue;
        const box = element.getBoundingClientRect();
        if (box.width > 1 && (box.right > width + 1 || box.left < -1) && !isClipped(element)) {
            found.push(`${describe(element)} reaches from ${box.left | 0} to ${box.right | 0} px of ${width}`);
        }
    }
    for (const svg of document.querySelectorAll("svg")) {
        if (!isVisible(svg)) continue;
        const frame = svg.getBoundingClientRect();
        const texts = [...svg.querySelectorAll("text")].filter((text) => isVisible(text) && text.textContent.trim());
        const boxes = texts.map((text) => text.getBoundingClientRect());
        texts.forEach((text, i) => {
            const box = boxes[i];
            const size = parseFloat(getComputedStyle(text).fontSize) * Math.abs(text.getScreenCTM().a || 1);
            if (size < 9) found.push(`${describe(text)} in a picture is ${size.toFixed(1)} px high`);
            if (box.left < frame.left - 1 || box.right > frame.right + 1 ||
                box.top < frame.top - 1 || box.bottom > frame.bottom + 1) {
                found.push(`${describe(text)} is cut off at the edge of its picture`);
            }
            for (let j = 0; j < i; j += 1) {
                if (boxesOverlap(box, boxes[j], 1.5)) {
                    found.push(`${describe(text)} lies on ${describe(texts[j])} in a picture`);
                }
            }
        });
    }
    return found;
}

const channels = (color) => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { colorSpace: "srgb" });
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
};

const over = (top, below) => {
    const mix = [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
    return [...mix, 1];
};

const luminance = (color) => {
    const [r, g, b] = color.slice(0, 3).map((value) => {
        const share = value / 255;
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};

const contrast = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
};

const paint = (element) => {
    const style = getComputedStyle(element);
    if (element instanceof SVGGraphicsElement && !(element instanceof SVGSVGElement)) {
        if (!(element instanceof SVGGeometryElement) || style.fill === "none") return null;
        const color = channels(style.fill);
        color[3] *= parseFloat(style.fillOpacity) * parseFloat(style.opacity);
        return color;
    }
    return channels(style.backgroundColor);
};

// The colour of a window before any part of the page is painted.
const canvasColor = () => {
    const probe = document.body.appendChild(document.createElement("span"));
    probe.style.backgroundColor = "Canvas";
    const color = channels(getComputedStyle(probe).backgroundColor);
    probe.remove();
    return color;
};

function contrastProblems() {
    const found = [];
    const canvas = canvasColor();
    // Elements that take no pointer events are not among the elements at a point.
    for (const each of document.querySelectorAll("svg *")) each.style.pointerEvents = "all";
    for (const text of document.querySelectorAll("svg text")) {
        if (!isVisible(text) || !text.textContent.trim()) continue;
        text.scrollIntoView({ block: "center", inline: "center" });
        const box = text.getBoundingClientRect();
        const at = document.elementsFromPoint(box.left + box.width / 2, box.top + box.height / 2);
        const layers = [];
        for (const element of at) {
            const color = element.closest("text") ? null : paint(element);
            if (color) layers.push(color);
            if (color && color[3] >= 0.999) break;
        }
        const ground = layers.reduceRight((below, layer) => over(layer, below), canvas);
        const style = getComputedStyle(text);
        const color = channels(style.fill);
        color[3] *= parseFloat(style.fillOpacity) * parseFloat(style.opacity);
        const ratio = contrast(over(color, ground), ground);
        const size = parseFloat(style.fontSize) * Math.abs(text.getScreenCTM().a || 1);
        const large = size >= 24 || (size >= 18.66 && parseInt(style.fontWeight, 10) >= 700);
        if (ratio < (large ? 3 : 4.5)) {
            found.push(`${describe(text)}: contrast ${ratio.toFixed(2)} of ${style.fill} on ${ground.map((x) => x | 0)}`);
        }
    }
    return found;
}

const REACHABLE = "a[href], button, input, select, textarea, summary, [tabindex]";

const keyOf = (element) => [...document.querySelectorAll("*")].indexOf(element);

// A group of radio buttons is one stop, at the selected button.
const takesFocus = (element) => element.tabIndex >= 0 && !element.disabled && element.type !== "hidden" &&
    isVisible(element) && !(element.type === "radio" && !element.checked);

function reachable() {
    return [...document.querySelectorAll(REACHABLE)].filter(takesFocus)
        .map((element) => ({ key: keyOf(element), words: describe(element) }));
}

// The next Tab goes to the first element, from any earlier focus.
function startOver() {
    document.body.tabIndex = -1;
    document.body.focus();
    document.body.removeAttribute("tabindex");
    window.scrollTo(0, 0);
}

function focused() {
    const element = document.activeElement;
    if (!element || element === document.body || element === document.documentElement) return null;
    const box = element.getBoundingClientRect();
    // The outline is around it, or around the article of which it is the only link.
    const around = [[element, null], [element, "::after"], [element.closest("article"), null]];
    const isShown = ([each, part]) => {
        const style = each && getComputedStyle(each, part);
        return style && style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
    };
    return {
        key: keyOf(element),
        words: describe(element),
        shown: around.some(isShown),
        inside: box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
    };
}

function background() {
    const color = channels(getComputedStyle(document.body).backgroundColor);
    return (color[3] > 0 ? color : [255, 255, 255]).slice(0, 3);
}

// Texts of pictures that have the colour of their background.
function unpainted() {
    const ground = channels(getComputedStyle(document.body).backgroundColor).slice(0, 3).join();
    return [...document.querySelectorAll("svg text")].filter(isVisible)
        .filter((text) => channels(getComputedStyle(text).fill).slice(0, 3).join() === ground).map(describe);
}
