"""The console in a real Chromium, on a running fleet."""

from datetime import UTC, datetime

import pytest
from playwright.sync_api import Browser, Route, expect

from cli.processes import LIMIT
from console.browser import RunningConsole, UpProcess, call_api, new_tab, sign_in
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient

EVENTUALLY = LIMIT * 1000


def test_login_link_opens_a_live_fleet_once(
    browser: Browser, console: RunningConsole, fleet_process: UpProcess
) -> None:
    page = new_tab(browser)
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.goto(console.link)
    page.wait_for_url(f"{console.url}/console/")
    expect(page.locator("#pulse")).to_contain_text("3 of 3 clusters ready", timeout=EVENTUALLY)
    expect(page.locator("#pulse")).to_contain_text("6 of 6 replicas up", timeout=EVENTUALLY)
    expect(page.locator("#live")).to_have_text("live", timeout=EVENTUALLY)
    expect(page.locator("svg.map a.card")).to_have_count(3)
    assert not problems, "no policy was violated and no script failed"
    other = new_tab(browser)
    other.goto(console.link)
    expect(other.locator("[role=alert]")).to_contain_text("used already")

    fleet_process.stop()
    expect(page.locator("#live")).to_contain_text("offline", timeout=EVENTUALLY)
    fleet_process.start()
    expect(page.locator("#live")).to_have_text("live", timeout=EVENTUALLY)
    expect(page.locator("#pulse")).to_contain_text("3 of 3 clusters ready", timeout=EVENTUALLY)


PATHS = (
    "/",
    "/workloads",
    "/workloads/default/Deployment/web",
    "/clusters/member1",
    "/moves",
    "/rebalance",
    "/rebalance/plan?selector=&kind=Deployment",
    "/drill?fail=cluster:member1",
    "/budgets",
    "/placements",
    "/stories",
    "/search?q=web",
    "/incident",
    "/preview",
)
RULES = """() => {
  const problems = [], seen = new Set();
  for (const e of document.querySelectorAll("[id]")) { if (seen.has(e.id)) problems.push("two elements have the id " + e.id); seen.add(e.id); }
  const name = e => (e.getAttribute("aria-label") || e.innerText || e.title || e.labels?.[0]?.innerText || e.placeholder || "").trim();
  for (const e of document.querySelectorAll("a[href], button, select, input:not([type=hidden])"))
    if (e.checkVisibility() && !name(e)) problems.push("no name: " + e.outerHTML.slice(0, 80));
  if (document.querySelectorAll("h1").length !== 1) problems.push("not one h1");
  let level = 1;
  for (const e of document.querySelectorAll("main h1, main h2, main h3")) { const n = +e.tagName[1]; if (n > level + 1) problems.push("heading skips: " + e.innerText); level = n; }
  for (const e of document.querySelectorAll("svg:not([aria-hidden=true])"))
    if (!(e.getAttribute("role") && e.getAttribute("aria-label"))) problems.push("picture without role and label: " + e.outerHTML.slice(0, 80));
  for (const e of document.querySelectorAll("button, a.btn, a.chip, select, textarea, summary, .tabs a, .nav a, .pulse a, input:not([type=hidden])")) { if (!e.checkVisibility()) continue; const r = e.getBoundingClientRect(); if (r.width && (r.height < 24 || r.width < 24)) problems.push("small target: " + e.innerText); }
  const lum = c => { const f = c.map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * f[0] + .7152 * f[1] + .0722 * f[2]; };
  const rgb = t => (t.match(/[\\d.]+/g) || []).map((n, i) => t.startsWith("color(") && i < 3 ? n * 255 : +n);
  for (const e of document.querySelectorAll("main p, main td, main th, main h1, main h2, main a")) {
    if (!e.checkVisibility() || !(e.innerText || "").trim() || e.closest(".vh, [disabled]") || e.querySelector(":scope > .vh")) continue;
    let at = e, back = [0, 0, 0, 0];
    while (at && !(back = rgb(getComputedStyle(at).backgroundColor), back.length === 3 || back[3] === 1)) at = at.parentElement;
    if (!at) continue;
    const a = lum(rgb(getComputedStyle(e).color)) + .05, b = lum(back) + .05;
    if (Math.max(a, b) / Math.min(a, b) < 4.5) problems.push("contrast: " + e.innerText.slice(0, 40));
  }
  for (const e of document.querySelectorAll("svg.pic text, svg.pic tspan")) {
    if (!e.checkVisibility() || !e.textContent.trim()) continue;
    let at = e.closest("svg").parentElement, back = [0, 0, 0, 0];
    while (at && !(back = rgb(getComputedStyle(at).backgroundColor), back.length === 3 || back[3] === 1)) at = at.parentElement;
    const a = lum(rgb(getComputedStyle(e).fill)) + .05, b = lum(back) + .05;
    if (Math.max(a, b) / Math.min(a, b) < 4.5) problems.push("contrast in a picture: " + e.textContent.slice(0, 40));
  }
  for (const e of document.querySelectorAll("table")) if (!e.querySelector("caption") && !e.closest("section")?.querySelector("h1, h2")) problems.push("table without caption or heading");
  if (document.documentElement.scrollWidth > innerWidth + 1) problems.push("wider than the window");
  return problems;
}"""


@pytest.mark.parametrize(
    ("width", "theme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark"), (320, "light")]
)
def test_pages_follow_the_rules_of_accessibility(
    browser: Browser, console: RunningConsole, width: int, theme: str
) -> None:
    page = new_tab(browser, viewport={"width": width, "height": 844}, color_scheme=theme)
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    elsewhere: list[str] = []
    page.on("request", lambda request: None if request.url.startswith(console.url) else elsewhere.append(request.url))
    sign_in(page, console, console.admin_token)
    for path in PATHS:
        page.goto(f"{console.url}/console{path}")
        expect(page.locator("[data-fill]")).to_have_count(0, timeout=EVENTUALLY)
        assert page.evaluate(RULES) == [], path
        assert len(page.screenshot()) > 5000, path
    assert problems == [], "no policy was violated and no script failed"
    assert elsewhere == [], "everything comes from this server"


def test_keys_filters_and_deep_links(browser: Browser, console: RunningConsole) -> None:
    page = new_tab(browser)
    sign_in(page, console, console.admin_token)
    page.keyboard.press("g")
    page.keyboard.press("w")
    page.wait_for_url(f"{console.url}/console/workloads")
    page.keyboard.press("/")
    page.keyboard.type("we")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{console.url}/console/workloads?q=we")
    page.keyboard.press("j")
    expect(page.locator("tr[aria-selected=true]")).to_contain_text("web")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{console.url}/console/workloads/default/Deployment/web")
    page.go_back()
    expect(page.locator("#rowfilter")).to_have_value("we")
    page.goto(f"{console.url}/console/workloads?state=wait")
    expect(page.locator(".chip[aria-current=true]", has_text="waiting")).to_have_count(1)
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).not_to_be_visible()


async def set_taint(client: KubeClient, cluster: str, *taints: dict[str, str]) -> None:
    clusters = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)
    await client.patch(clusters, "", cluster, {"spec": {"taints": list(taints)}})


def test_printed_pages_are_not_cut_off(browser: Browser, console: RunningConsole) -> None:
    page = new_tab(browser)
    sign_in(page, console, console.admin_token)
    page.emulate_media(media="print")
    upright, across = {"width": 688, "height": 1009}, {"width": 1047, "height": 718}  # A4 without its margins
    for path in ("/", "/workloads", "/workloads/default/Deployment/web", "/moves", "/budgets", "/incident"):
        page.set_viewport_size(upright if path == "/incident" else across)
        page.goto(f"{console.url}/console{path}")
        expect(page.locator("h1")).to_be_visible()
        hidden = page.evaluate(
            """() => [...document.querySelectorAll("main, .panel, .scroll, .later")]
            .filter(e => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1).map(e => e.className + " " + e.innerText.slice(0, 60))"""
        )
        assert not hidden, path


async def create_unsatisfied_placement(client: KubeClient) -> None:
    group = "cluster.open-cluster-management.io"
    rule = {"requiredClusterSelector": {"labelSelector": {"matchLabels": {"gpu": "yes"}}}}
    for version, kind, name, spec in (
        ("v1beta2", "ManagedClusterSetBinding", "global", {"clusterSet": "global"}),
        ("v1beta1", "Placement", "unfit", {"numberOfClusters": 3, "predicates": [rule]}),
    ):
        resource = Resource(group, version, f"{kind.lower()}s", kind, namespaced=True)
        obj = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": name, "namespace": "default"}}
        await client.create(resource, {**obj, "spec": spec})


def test_long_messages_fit_into_a_narrow_window(browser: Browser, console: RunningConsole) -> None:
    page = new_tab(browser, viewport={"width": 390, "height": 844})
    sign_in(page, console, console.admin_token)
    page.goto(f"{console.url}/console/placements")
    call_api(console, create_unsatisfied_placement)
    expect(page.locator("#lead")).to_contain_text("1 Placement;", timeout=EVENTUALLY)
    expect(page.locator("#placements")).to_contain_text("filters reject 3 of 3 clusters", timeout=EVENTUALLY)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator("h1")).to_have_text("Sign in", timeout=EVENTUALLY)


def test_only_rows_that_changed_are_marked(browser: Browser, console: RunningConsole) -> None:
    page = new_tab(browser)
    sign_in(page, console, console.admin_token)
    taint = {"key": "careful", "effect": "NoSchedule"}

    def change_first(route: Route) -> None:
        """The stream begins after a change, so that it sends all rows again."""
        call_api(console, lambda client: set_taint(client, "member3", taint))
        route.continue_()

    page.route("**/console/events**", change_first, times=1)
    page.goto(f"{console.url}/console/")
    expect(page.locator("tr[data-cl=member3]")).to_contain_text("careful", timeout=EVENTUALLY)
    assert page.locator("tr.fresh").evaluate_all("rows => rows.map(row => row.dataset.cl)") == ["member3"]
    page.unroute_all()
    call_api(console, lambda client: set_taint(client, "member3"))


async def make_viewer(client: KubeClient) -> str:
    """A service account that may only list the bindings of its namespace; returns a token."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "viewer", "namespace": "default"}}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "viewer", "namespace": "default"},
        "rules": [{"apiGroups": ["work.karmada.io"], "resources": ["resourcebindings"], "verbs": ["get", "list"]}],
    }
    grant = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "viewer", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "viewer"},
        "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": "default"}],
    }
    accounts = Resource("", "v1", "serviceaccounts", "ServiceAccount")
    await client.create(accounts, account)
    await client.create(Resource("rbac.authorization.k8s.io", "v1", "roles", "Role"), role)
    await client.create(Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"), grant)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await client.submit(accounts, "default", "viewer", "token", request)
    return str(answer["status"]["token"])


def test_two_users_with_different_rights(browser: Browser, console: RunningConsole) -> None:
    viewer, admin = new_tab(browser), new_tab(browser)
    sign_in(viewer, console, call_api(console, make_viewer))
    sign_in(admin, console, console.admin_token)
    expect(viewer.locator("#lead")).to_contain_text("You may not list clusters")
    for width in (761, 1000, 1280):  # the long name of a service account must not widen the page
        viewer.set_viewport_size({"width": width, "height": 844})
        assert viewer.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
    viewer.goto(f"{console.url}/console/workloads")
    expect(viewer.locator("#workload-rows")).to_contain_text("web")
    assert viewer.goto(f"{console.url}/console/clusters/member1").status == 404
    viewer.goto(f"{console.url}/console/rebalance/plan?selector=&kind=Deployment")
    expect(viewer.locator("button[data-dialog=start]")).to_have_count(0)
    admin.goto(f"{console.url}/console/clusters/member1")
    admin.click("button[data-dialog=drain]")
    expect(admin.locator("#drain button[data-danger]")).to_be_disabled()
    admin.fill("#drain input[name=confirm]", "member1")
    admin.click("#drain button[data-danger]")
    expect(admin.locator("#lead")).to_contain_text("draining", timeout=EVENTUALLY)
    refused = viewer.evaluate(
        """async url => { const form = document.querySelector("form.who input[name=csrf]").value;
        const answer = await fetch(url, {method: "POST", headers: {"content-type": "application/x-www-form-urlencoded"},
          body: new URLSearchParams({csrf: form, confirm: "member2"})}); return answer.status; }""",
        f"{console.url}/console/clusters/member2/drain",
    )
    assert refused == 403, "the API refuses what the buttons do not offer"
    admin.click("button[data-dialog=undrain]")
    admin.click("#undrain button[data-danger]")
    expect(admin.locator("#lead")).to_contain_text("ready", timeout=EVENTUALLY)


def test_drill_is_planned_then_done_for_real_and_watched(browser: Browser, console: RunningConsole) -> None:
    page = new_tab(browser, color_scheme="dark")
    sign_in(page, console, console.admin_token)
    page.goto(f"{console.url}/console/drill?fail=cluster:member2")
    expect(page.locator("main")).to_contain_text("start elsewhere", timeout=EVENTUALLY)
    page.click("button[data-dialog=real]")
    page.fill("#real input[name=confirm]", "member2")
    page.click("#real button[data-danger]")
    page.wait_for_url(f"{console.url}/console/clusters/member2")
    expect(page.locator("#lead")).to_contain_text("dark", timeout=EVENTUALLY)
    expect(page.locator("#move-rows")).to_contain_text("failover", timeout=EVENTUALLY)
    expect(page.get_by_text("Nothing has moved to or from here yet")).to_be_hidden()
    expect(page.locator("#lead")).to_contain_text("All workloads have left it", timeout=EVENTUALLY)
    expect(page.get_by_text("No workload is placed here")).to_be_visible()
    expect(page.locator("#lead")).to_contain_text("may still run")
    expect(page.locator("#about")).to_contain_text("not-ready:NoExecute", timeout=EVENTUALLY)
    page.goto(f"{console.url}/console/incident?cluster=member2")
    expect(page.locator("#report")).to_contain_text("failover", timeout=EVENTUALLY)
    page.emulate_media(media="print")
    expect(page.locator(".top")).to_be_hidden()
    expect(page.locator("#report h1")).to_be_visible()
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == "rgb(255, 255, 255)", "a report is printed black on white, also where the system is dark"
    assert page.pdf().startswith(b"%PDF")
    page.emulate_media(media="screen")
    page.goto(f"{console.url}/console/")
    page.click("button[data-dialog=recover]")
    page.click("#recover button.primary")
    expect(page.locator("#faults button")).to_have_count(0, timeout=EVENTUALLY)
    expect(page.locator("#pulse")).to_contain_text("3 of 3 clusters ready", timeout=EVENTUALLY)


def test_rebalance_is_planned_started_and_watched_with_the_name_of_its_user(
    browser: Browser, console: RunningConsole
) -> None:
    page = new_tab(browser)
    sign_in(page, console, console.admin_token)
    page.goto(f"{console.url}/console/rebalance/plan?workload=default/Deployment/web")
    start = page.locator("button[data-dialog=start]")
    expect(page.locator("[data-fill]")).to_have_count(0, timeout=EVENTUALLY)
    if start.count() == 0:  # everything is where it should be
        expect(page.locator("h1")).to_contain_text("0 workloads would move")
        return
    start.click()
    page.fill("#start input[name=name]", "by-hand")
    page.click("#start button:not([data-close])")
    page.wait_for_url(f"{console.url}/console/rebalance/by-hand")
    expect(page.locator("#lead")).to_contain_text("by trimtab-admin")
    expect(page.locator("#lead")).to_contain_text("finished", timeout=EVENTUALLY)
    page.goto(f"{console.url}/console/moves")
    expect(page.locator("#move-rows")).to_contain_text("trimtab-admin")


def test_story_is_played_and_watched(browser: Browser, console: RunningConsole) -> None:
    page = new_tab(browser)
    sign_in(page, console, console.admin_token)
    page.goto(f"{console.url}/console/stories/duplicated")
    page.click("form[action$=play] button")
    expect(page.locator("#story")).to_contain_text("all expectations were met", timeout=EVENTUALLY)
    page.goto(f"{console.url}/console/stories?q=duplicated")
    expect(page.locator("#stories")).to_contain_text("all expectations were met")


def test_texts_of_others_are_shown_as_text(browser: Browser, console: RunningConsole) -> None:
    """Names and labels of real objects have few characters; messages of events have any."""
    hostile = "<img src=x onerror=\"document.title='broken in'\">"
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "hostile", "namespace": "default"},
        "involvedObject": {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "name": "member3"},
        "reason": hostile,
        "message": hostile,
        "type": "Warning",
        "lastTimestamp": now,
    }
    page = new_tab(browser)
    sign_in(page, console, console.admin_token)
    page.goto(f"{console.url}/console/clusters/member3")
    expect(page.locator("#live")).to_have_text("live", timeout=EVENTUALLY)
    call_api(console, lambda client: client.create(Resource("", "v1", "events", "Event"), event))
    expect(page.locator("#timeline")).to_contain_text(hostile, timeout=EVENTUALLY)  # inserted by the stream
    for path in ("/clusters/member3", "/incident?cluster=member3"):
        page.goto(f"{console.url}/console{path}")
        expect(page.locator("main")).to_contain_text(hostile)
        assert page.locator("main img").count() == 0
        assert "broken in" not in page.title()
