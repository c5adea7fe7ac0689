"""The page as it is to use, in a real browser."""

import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from playwright.sync_api import expect, sync_playwright

import orthodrome as od
from exploring import FLAGS, PATIENCE, serving


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium, "the page is tested in a real browser: apt-get install chromium"
    with sync_playwright() as playwright:
        profile = tmp_path_factory.mktemp("profile")
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=chromium, args=FLAGS, viewport={"width": 1100, "height": 760}
        )
        yield context
        context.close()


@pytest.fixture
def page(browser, address):
    yield from _page(browser, address)


def _page(browser, address):
    page, wrong = browser.new_page(), []
    page.expected = None
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "console",
        lambda message: (
            wrong.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    page.goto(address)
    page.wait_for_selector("#overlay[data-ready=true]", timeout=PATIENCE)
    yield page
    assert not [text for text in wrong if not (page.expected and page.expected in text)]
    page.close()


def spot(page, point):
    """Where a place of the plane is on the screen."""
    scene = page.evaluate("fetch('/api/scene').then(response => response.json())")
    (left, bottom), (right, top) = scene["box"]
    edge = page.locator("#overlay").bounding_box()
    scale = min(edge["width"] / (right - left), edge["height"] / (top - bottom))
    x, y = scene["points"][point] if isinstance(point, int) else point
    return (
        edge["x"] + edge["width"] / 2 + scale * (x - (left + right) / 2),
        edge["y"] + edge["height"] / 2 - scale * (y - (bottom + top) / 2),
    )


def settled(page, count=1):
    """The lengths that are shown, when nothing is under way any more."""
    expect(page.locator("#paths .badge")).to_have_count(count, timeout=PATIENCE)
    expect(page.locator("main")).to_have_attribute("aria-busy", "false", timeout=PATIENCE)
    return [float(text) for text in page.locator("#paths .length").all_inner_texts()]


def test_press_two_points_and_see_the_path_and_its_length(page, folder):
    data = od.io.read_data(folder / "moons.csv", index="name").values
    page.mouse.click(*spot(page, 3))
    page.mouse.click(*spot(page, 80))
    (length,) = settled(page)
    np.testing.assert_allclose(length, od.distance(od.LocalPCA(data), data[3], data[80]), rtol=1e-3)
    shown = page.locator("#paths").inner_text()
    assert "✓ certified" in shown and "straight line" in shown and "posterior spread" in shown
    colour = page.evaluate("""() => {
        const canvas = document.getElementById('overlay'), pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        let count = 0;
        for (let i = 0; i < pixels.length; i += 4) count += pixels[i] === 11 && pixels[i + 1] === 110 && pixels[i + 2] === 143 && pixels[i + 3] === 255;
        return count;
    }""")  # the first path's colour, #0b6e8f
    assert colour > 300


def test_drag_an_end_and_the_path_follows(page, folder):
    data = od.io.read_data(folder / "moons.csv", index="name").values
    page.mouse.click(*spot(page, 3))
    page.mouse.click(*spot(page, 80))
    (before,) = settled(page)
    answers = []
    page.on(
        "response", lambda response: answers.append(response) if "path" in response.url else None
    )
    page.mouse.move(*spot(page, 80))
    page.mouse.down()
    page.mouse.move(*spot(page, 50), steps=12)
    page.mouse.up()
    expect(page.locator("#paths .length")).not_to_have_text(f"{before:g}")
    (after,) = settled(page)
    np.testing.assert_allclose(after, od.distance(od.LocalPCA(data), data[3], data[50]), rtol=1e-3)
    asked = [answer.request.post_data_json for answer in answers]
    assert (
        len(asked) > 2 and asked[0]["near"] and asked[-1]["near"] is None and asked[-1]["end"] == 50
    )


def test_pressing_an_end_moves_nothing_and_begins_another_path_there(page):
    page.mouse.click(*spot(page, 3))
    page.mouse.click(*spot(page, 80))
    settled(page)
    x, y = spot(page, 80)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.mouse.click(x + 8, y)
    page.wait_for_timeout(400)
    assert not asked and page.locator("#paths li").count() == 1
    expect(page.locator("#hint")).to_have_text("now the other end")
    page.mouse.click(*spot(page, 50))
    settled(page, 2)
    assert page.locator("#paths li").count() == 2


def test_a_point_pressed_twice_begins_nothing(page):
    page.mouse.dblclick(*spot(page, 3))
    page.wait_for_timeout(200)
    assert page.locator("#paths li").count() == 0
    expect(page.locator("#hint")).to_have_text("press one point, then another")


def test_what_is_followed_is_not_called_certified(page):
    for start, end in ((3, 80), (10, 30)):
        page.mouse.click(*spot(page, start))
        page.mouse.click(*spot(page, end))
    settled(page, 2)
    x, y = spot(page, 30)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 30, y - 30, steps=5)
    badges = page.locator("#paths .badge")
    expect(badges.nth(1)).to_have_text("following")
    page.wait_for_timeout(600)  # still held: it stays what it is
    assert (
        badges.all_inner_texts() == ["✓ certified", "following"]
        and page.locator("#status").inner_text() == ""
    )
    page.mouse.up()
    expect(badges.nth(1)).to_have_text("✓ certified")
    page.evaluate("""() => {
        const slider = document.getElementById('sigma');
        slider.value = Number(slider.value) + 0.1;
        slider.dispatchEvent(new Event('input'));
    }""")
    assert set(badges.all_inner_texts()) == {"following"}  # at once, before any answer
    expect(badges.nth(0)).to_have_text("✓ certified")
    expect(badges.nth(1)).to_have_text("✓ certified")


def test_a_screen_reader_is_told_what_is_what(page):
    page.mouse.click(*spot(page, 3))
    page.mouse.click(*spot(page, 80))
    (length,) = settled(page)
    row = page.locator("#paths .choose")
    assert row.inner_text().split()[:3] == ["1", f"{length:g}", "✓"]
    for name in ("σ", "ρ"):
        expect(page.get_by_role("slider", name=name)).to_be_visible()
    expect(page.locator("#status")).to_have_text(f"path 1: length {length:g}, certified")


def test_a_path_that_fails_shows_no_length_and_no_certificate(page):
    page.mouse.click(*spot(page, 3))
    page.mouse.click(*spot(page, 80))
    settled(page)
    page.expected = "Failed to load resource"
    page.route("**/api/path", lambda route: route.fulfill(status=429, json={"error": "too many."}))
    page.mouse.move(*spot(page, 80))
    page.mouse.down()
    page.mouse.move(*spot(page, 50), steps=3)
    page.mouse.up()
    expect(page.locator("#paths .length")).to_have_text("no path")
    expect(page.locator("#paths .badge")).to_be_hidden()
    expect(page.locator("#status")).to_have_text("too many.")
    page.unroute("**/api/path")


def test_what_was_only_followed_is_searched_when_all_is_still(page):
    """A slider that goes out and comes back to where it was tells the page nothing at the end."""
    page.mouse.click(*spot(page, 3))
    page.mouse.click(*spot(page, 80))
    settled(page)
    answers = []
    page.on(
        "response", lambda response: answers.append(response) if "path" in response.url else None
    )
    page.evaluate("""() => {
        const slider = document.getElementById('sigma'), value = Number(slider.value);
        for (const there of [value + 0.1, value]) { slider.value = there; slider.dispatchEvent(new Event('input')); }
    }""")
    page.wait_for_timeout(800)
    settled(page)
    assert (
        answers[0].request.post_data_json["near"]
        and answers[-1].request.post_data_json["near"] is None
    )


def test_press_and_pull_makes_a_path_and_there_may_be_several(page):
    for start, end in ((3, 80), (10, 30)):
        page.mouse.move(*spot(page, start))
        page.mouse.down()
        page.mouse.move(*spot(page, end), steps=5)
        page.mouse.up()
    settled(page, 2)
    page.locator(".remove").first.click()
    settled(page, 1)
    page.locator("#clear").click()
    assert page.locator("#paths li").count() == 0 and page.locator("#none").is_visible()


def test_a_slider_changes_the_map_and_the_path(page, folder):
    data = od.io.read_data(folder / "moons.csv", index="name").values
    page.mouse.click(*spot(page, 3))
    page.mouse.click(*spot(page, 80))
    (before,) = settled(page)
    pixels = "document.getElementById('ground').toDataURL()"
    ground, slider = page.evaluate(pixels), page.locator("#sigma")
    slider.focus()
    for _ in range(3):
        page.keyboard.press("PageUp")
    expect(page.locator("#paths .length")).not_to_have_text(f"{before:g}")
    (after,) = settled(page)
    sigma = np.exp(float(slider.input_value()))
    metric = od.LocalPCA(data, sigma, od.LocalPCA(data).rho)
    np.testing.assert_allclose(after, od.distance(metric, data[3], data[80]), rtol=1e-3)
    assert page.evaluate(pixels) != ground
    page.locator("#reset").click()
    expect(page.locator("#paths .length")).to_have_text(f"{before:g}")


def test_it_works_by_keyboard_alone(page):
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "overlay"
    for keys in (
        ["Enter", *["ArrowLeft"] * 9, "Enter"],
        [*["ArrowRight"] * 18, *["ArrowUp"] * 3, "Enter"],
    ):
        for key in keys:
            page.keyboard.press(key)
    (before,) = settled(page)
    for key in (
        "Enter",
        "Shift+ArrowDown",
        "Shift+ArrowDown",
        "Enter",
    ):  # take up the end under the cross, put it down elsewhere
        page.keyboard.press(key)
    expect(page.locator("#paths .length")).not_to_have_text(f"{before:g}")
    page.keyboard.press("Delete")
    assert page.locator("#paths li").count() == 0


def test_everything_can_be_taken_away(page, tmp_path):
    page.mouse.click(*spot(page, 3))
    page.mouse.click(*spot(page, 80))
    settled(page)
    for kind in ("png", "svg", "csv"):
        with page.expect_download() as download:
            page.locator(f"aside [data-kind={kind}]").click()
        download.value.save_as(tmp_path / kind)
        assert (
            download.value.suggested_filename == f"orthodrome_paths.{kind}"
            and (tmp_path / kind).stat().st_size > 1000
        )
    page.locator("#python").click()
    expect(page.locator("#lines")).to_contain_text("paths = [od.shortest_path(metric, start, end)")
    with page.expect_download() as download:
        page.locator("dialog [data-kind=py]").click()
    program = tmp_path / download.value.suggested_filename
    download.value.save_as(program)
    page.keyboard.press("Escape")
    done = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True)
    (length,) = settled(page)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(float(re.search(r"length (\S+)", done.stdout)[1]), length, rtol=1e-3)


def test_a_narrow_window_has_everything_one_below_the_other(page):
    page.set_viewport_size({"width": 380, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 380
    canvas, panel = page.locator("#canvases").bounding_box(), page.locator("aside").bounding_box()
    assert panel["y"] >= canvas["y"] + canvas["height"] and canvas["width"] > 340
    page.mouse.click(*spot(page, 3))
    page.mouse.click(*spot(page, 80))
    settled(page)
    page.set_viewport_size({"width": 1100, "height": 760})


def test_another_page_cannot_ask(browser, address):
    page = browser.new_page()
    form = f'<form method="post" action="{address}api/path"><button>press me</button></form>'
    page.route(
        "http://evil.example/", lambda route: route.fulfill(body=form, content_type="text/html")
    )
    page.goto("http://evil.example/")
    with pytest.raises(Exception, match="Failed to fetch"):
        page.evaluate(f"fetch('{address}api/scene').then(response => response.text())")
    with page.expect_navigation() as arrived:
        page.locator("button").click()
    assert arrived.value.status == 403 and "only to its own page" in page.inner_text("body")
    page.close()


def test_a_decoder_shows_its_images_on_the_way(browser, folder):
    with serving(folder, "vae.safetensors", "--data", "images.npy") as address:
        for page in _page(browser, address):
            page.mouse.click(*spot(page, 3))
            page.mouse.click(*spot(page, 80))
            settled(page)
            film = page.locator("#frames")
            assert film.is_visible() and page.locator("#metric").is_hidden()
            shades = page.evaluate("""() => {
                const canvas = document.getElementById('frames'), data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
                return new Set(data.filter((_, i) => i % 4 === 0)).size;
            }""")
            assert shades > 20
