// The cookie goes to every server of this host; a server that has no run of a key ignores the key.
export default function ({ data }) {
  const cookie = document.cookie.split("; ").find((c) => c.startsWith(`${data.cookie}=`));
  const old = cookie ? cookie.slice(data.cookie.length + 1).split(".") : [];
  const keys = [...new Set([...data.keys, ...old])].slice(0, data.most);
  const how = "path=/; max-age=604800; SameSite=Strict";
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `${data.cookie}=${keys.join(".")}; ${how}${secure}`;
}
